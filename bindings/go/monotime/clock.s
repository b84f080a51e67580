// Empty: it lets clock.go declare a function without a body.
