"""What the application finds: variables, lists and templates are rendered, and written so that files appear whole."""
