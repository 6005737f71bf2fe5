package dev.lockwright.uniffi;


public class InternalException extends java.lang.RuntimeException {
    public InternalException(java.lang.String message) {
        super(message);
    }
}

