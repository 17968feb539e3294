"""Frames -> what is shown of them: panels without a pixel, which `render/` draws as a page or as a picture."""
