local kind = 'barrier1'
