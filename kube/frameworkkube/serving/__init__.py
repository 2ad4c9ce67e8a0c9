"""The HTTP servers of the programs: `listener` opens the socket of each, with address and bounds; the health port."""
