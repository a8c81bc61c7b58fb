"""Documents: JSON under paths, in which every change is a numbered record of the log, and queries over collections of items."""
