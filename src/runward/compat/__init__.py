"""The interfaces of the tools that Runward replaces, thin over the product's own use cases."""
