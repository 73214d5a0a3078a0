//! The pool's errors as exceptions: `hanare.errors` has a class for each variant of [`hanare::Error`], by its name.

use hanare::{Error, Happened};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde_json::Value;

/// The exception for an error: its class by the variant's name, its fields as attributes.
pub fn raise(error: Error) -> PyErr {
    Python::attach(|py| make(py, &error).unwrap_or_else(|failed| failed))
}

fn make(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let told = serde_json::to_value(error).map_err(|odd| PyRuntimeError::new_err(format!("{error} ({odd})")))?;
    let Value::Object(told) = told else { return Ok(PyRuntimeError::new_err(error.to_string())) };
    let (name, fields) = told.into_iter().next().ok_or_else(|| PyRuntimeError::new_err(error.to_string()))?;
    let happened = match error.happened() {
        Happened::No => "no",
        Happened::Yes => "yes",
        Happened::Unknown => "unknown",
    };
    let arguments = (name, error.to_string(), fields.to_string(), happened, error.may_retry());
    let made = py.import("hanare.errors")?.call_method1("_make", arguments)?;
    Ok(PyErr::from_value(made))
}
