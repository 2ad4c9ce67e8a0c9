"""The part of the controller that acts: observe, let the core decide, write the status, act, observe again."""
