package dev.lockwright.uniffi;


import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
public class LockwrightUniffi {

    /**
     * The reply to a request, at once but for the one that takes the mail. What fails is a reply, too.
     */public static byte[] call(byte[] request)  {
            try {
                return FfiConverterByteArray.INSTANCE.lift(
    UniffiHelpers.uniffiRustCall( (_allocator, _status) -> {
        return UniffiLib.uniffi_lockwright_uniffi_fn_func_call(_allocator,
            FfiConverterByteArray.INSTANCE.lower(request), _status);
    })
    );
            } catch (java.lang.RuntimeException _uniffi_ex) {


                if (InternalException.class.isInstance(_uniffi_ex.getCause())) {
                    throw (InternalException)_uniffi_ex.getCause();
                }
                throw _uniffi_ex;
            }
    }


}

