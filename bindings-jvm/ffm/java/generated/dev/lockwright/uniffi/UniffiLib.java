package dev.lockwright.uniffi;


// FFM-based library binding. Each FFI function gets a MethodHandle and a wrapper method.
final class UniffiLib {
    private static final java.lang.foreign.Linker LINKER = java.lang.foreign.Linker.nativeLinker();
    private static final java.lang.foreign.SymbolLookup SYMBOLS;



    static {
        SYMBOLS = NamespaceLibrary.loadLibrary();
    }

    private static java.lang.invoke.MethodHandle findDowncallHandle(String name, java.lang.foreign.FunctionDescriptor descriptor) {
        return SYMBOLS.find(name)
            .map(s -> LINKER.downcallHandle(s, descriptor))
            .orElseThrow(() -> new RuntimeException("Missing FFI symbol: " + name));
    }

    // uniffi_lockwright_uniffi_fn_func_call
    private static final java.lang.invoke.MethodHandle MH_uniffi_lockwright_uniffi_fn_func_call = findDowncallHandle("uniffi_lockwright_uniffi_fn_func_call", java.lang.foreign.FunctionDescriptor.of(RustBuffer.LAYOUT, RustBuffer.LAYOUT, java.lang.foreign.ValueLayout.ADDRESS));

    static java.lang.foreign.MemorySegment uniffi_lockwright_uniffi_fn_func_call(java.lang.foreign.SegmentAllocator _allocator, java.lang.foreign.MemorySegment request, java.lang.foreign.MemorySegment _uniffiOutErr) {
        try {
            return (java.lang.foreign.MemorySegment) MH_uniffi_lockwright_uniffi_fn_func_call.invokeExact(_allocator, request, _uniffiOutErr);
        } catch (Throwable _ex) { throw new AssertionError("invokeExact failed", _ex); }
    }

    // ffi_lockwright_uniffi_rustbuffer_alloc
    private static final java.lang.invoke.MethodHandle MH_ffi_lockwright_uniffi_rustbuffer_alloc = findDowncallHandle("ffi_lockwright_uniffi_rustbuffer_alloc", java.lang.foreign.FunctionDescriptor.of(RustBuffer.LAYOUT, java.lang.foreign.ValueLayout.JAVA_LONG, java.lang.foreign.ValueLayout.ADDRESS));

    static java.lang.foreign.MemorySegment ffi_lockwright_uniffi_rustbuffer_alloc(java.lang.foreign.SegmentAllocator _allocator, long size, java.lang.foreign.MemorySegment _uniffiOutErr) {
        try {
            return (java.lang.foreign.MemorySegment) MH_ffi_lockwright_uniffi_rustbuffer_alloc.invokeExact(_allocator, size, _uniffiOutErr);
        } catch (Throwable _ex) { throw new AssertionError("invokeExact failed", _ex); }
    }


    // ffi_lockwright_uniffi_rustbuffer_free
    private static final java.lang.invoke.MethodHandle MH_ffi_lockwright_uniffi_rustbuffer_free = findDowncallHandle("ffi_lockwright_uniffi_rustbuffer_free", java.lang.foreign.FunctionDescriptor.ofVoid(RustBuffer.LAYOUT, java.lang.foreign.ValueLayout.ADDRESS));

    static void ffi_lockwright_uniffi_rustbuffer_free(java.lang.foreign.MemorySegment buf, java.lang.foreign.MemorySegment _uniffiOutErr) {
        try {
            MH_ffi_lockwright_uniffi_rustbuffer_free.invokeExact(buf, _uniffiOutErr);
        } catch (Throwable _ex) { throw new AssertionError("invokeExact failed", _ex); }
    }


















































    // uniffi_lockwright_uniffi_checksum_func_call
    private static final java.lang.invoke.MethodHandle MH_uniffi_lockwright_uniffi_checksum_func_call = findDowncallHandle("uniffi_lockwright_uniffi_checksum_func_call", java.lang.foreign.FunctionDescriptor.of(java.lang.foreign.ValueLayout.JAVA_SHORT));

    static short uniffi_lockwright_uniffi_checksum_func_call() {
        try {
            return (short) MH_uniffi_lockwright_uniffi_checksum_func_call.invokeExact();
        } catch (Throwable _ex) { throw new AssertionError("invokeExact failed", _ex); }
    }

    // ffi_lockwright_uniffi_uniffi_contract_version
    private static final java.lang.invoke.MethodHandle MH_ffi_lockwright_uniffi_uniffi_contract_version = findDowncallHandle("ffi_lockwright_uniffi_uniffi_contract_version", java.lang.foreign.FunctionDescriptor.of(java.lang.foreign.ValueLayout.JAVA_INT));

    static int ffi_lockwright_uniffi_uniffi_contract_version() {
        try {
            return (int) MH_ffi_lockwright_uniffi_uniffi_contract_version.invokeExact();
        } catch (Throwable _ex) { throw new AssertionError("invokeExact failed", _ex); }
    }



    // Integrity checks and initialization must happen after all MethodHandle fields
    // are initialized (static fields are initialized in textual order in Java).
    static {
        NamespaceLibrary.uniffiCheckContractApiVersion();
        NamespaceLibrary.uniffiCheckApiChecksums();

        }
}

