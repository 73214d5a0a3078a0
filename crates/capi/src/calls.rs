//! The calls that every command has.

/// The three calls of a command, by their names, arguments and maker: one carries it out, one begins it, one adds it to a batch.
macro_rules! command_calls {
    ($now:ident, $begun:ident, $later:ident($($argument:ident: $type:ty),* $(,)?) => $make:expr) => {
        /// See `hanare.h`.
        ///
        /// # Safety
        /// See the header.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $now($($argument: $type),*) -> ::std::ffi::c_int {
            // SAFETY: the caller's pointers, good during the call.
            $crate::border::code_of(stringify!($now), || unsafe { $make?.run() })
        }

        /// See `hanare.h`.
        ///
        /// # Safety
        /// See the header.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $begun(
            $($argument: $type,)*
            request: *mut *mut $crate::request::CRequest,
        ) -> ::std::ffi::c_int {
            $crate::border::code_of(stringify!($begun), || {
                let into = $crate::argument::place(request, "request")?;
                // SAFETY: the caller's pointers; memory that the command names is the library's until hanare_wait.
                unsafe {
                    let made = $make?;
                    let request = $crate::request::CRequest::start(made.pool(), ::std::slice::from_ref(&made))?;
                    $crate::argument::give(request, into);
                }
                Ok($crate::code::OK)
            })
        }

        /// See `hanare.h`.
        ///
        /// # Safety
        /// See the header.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $later(batch: *mut $crate::batch::CBatch, $($argument: $type),*) -> ::std::ffi::c_int {
            // SAFETY: the caller's pointers, good until the batch was run for the last time.
            $crate::border::code_of(stringify!($later), || unsafe {
                $crate::argument::reference(batch, "batch")?.push($make?)
            })
        }
    };
}
pub(crate) use command_calls;
