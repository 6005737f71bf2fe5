return #places()
