"""What is shown of a Framework, of its Tasks, Pods and Events, and what is expected of it. Pure."""
