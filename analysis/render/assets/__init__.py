"""What a page brings along: its template, its look, and the scripts that draw its panels, one idea a file."""
