"""What a browser loads, beside the plots of `gputel/analysis/render`."""
