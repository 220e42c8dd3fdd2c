"""Names in code: what a point's own code declares becomes ``var1``, ``func1``, ``class1``, its structure kept."""
