"""The vocabulary: names, states, completion codes and the shapes of the objects, as clients know them."""
