"""C++ for updates that are compiled anyway; none of it is needed, and none is built when a package is installed."""
