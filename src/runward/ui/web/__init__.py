"""The pages, the JSON and the metrics of `runward serve`, made of the same view models as the terminal's."""
