"""Planning: what a run will take before it starts. A question goes in; rows of figures with ranges and origins
come out.
"""
