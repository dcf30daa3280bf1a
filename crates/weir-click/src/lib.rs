//! The Click language: lexer, parser and elaboration to a flat graph.
