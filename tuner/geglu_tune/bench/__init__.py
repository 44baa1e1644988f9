"""The PR's tables: whole MLPs and bare kernels, time and memory, one provider beside the other."""
