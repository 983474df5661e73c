"""The sets of questions that retrieval is measured on: one module for each layout of files."""
