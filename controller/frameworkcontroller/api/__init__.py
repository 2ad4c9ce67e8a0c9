"""The vocabulary: names, states, completion codes and the shapes of the objects, as clients know them.

`names` also says which labels, annotations and variables each Pod gets.
"""
