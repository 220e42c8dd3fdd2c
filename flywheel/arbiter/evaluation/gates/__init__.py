"""What a change must hold, one file per gate. ``gate.py`` has their shape, ``catalog.py`` lists them."""
