//! The calls that every command has.

/// The two calls of a command, by their names, arguments and maker: one carries it out now, the other adds it to a batch.
macro_rules! command_calls {
    ($now:ident, $later:ident($($argument:ident: $type:ty),* $(,)?) => $make:expr) => {
        /// See `hanare.h`.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $now($($argument: $type),*) -> ::std::ffi::c_int {
            // SAFETY: the caller's pointers, good during the call.
            $crate::border::code_of(stringify!($now), || unsafe { $make?.run() })
        }

        /// See `hanare.h`.
        ///
        /// # Safety
        /// As the header says.
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
