return count
