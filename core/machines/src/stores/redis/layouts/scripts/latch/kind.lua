local kind = 'latch1'
