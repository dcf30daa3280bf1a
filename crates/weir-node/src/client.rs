//! A blocking client of the REST interface, for the command line.
