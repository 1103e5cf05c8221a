"""The composition root: the only package that knows concrete adapters. One module an area."""
