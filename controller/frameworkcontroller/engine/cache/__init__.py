"""What the informers keep of Frameworks, ConfigMaps and Pods: no more than decisions read."""
