"""How far each form of the kernels is from the truth, and a GEGLU MLP made of it from PyTorch's eager one."""
