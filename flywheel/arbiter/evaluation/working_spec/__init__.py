"""Working specs: what a change may touch, which gates it must pass, and who may let it through without one."""
