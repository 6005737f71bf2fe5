return {'barrier', count, #places()}
