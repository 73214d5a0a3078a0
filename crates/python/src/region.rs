//! A region as Python sees it: the vector commands on bytes that Python objects lend.

use crate::errors::raise;
use crate::memory::{ObjectBytes, run};
use crate::shapes::ShapeTuple;
use crate::view::View;
use crate::waiting::{Pending, begin};
use hanare::{Consistency, Element, Modify, Operator, Range, Rights, Summary, Value, Wait, Word};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between a word's looks for a wait that is still wanted.
const WANTED_MS: u64 = 100;

/// An open region.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Region {
    pub region: Arc<hanare::Region>,
    /// True if commands may wait for other hosts.
    pub may_wait: bool,
}

/// A reduction's result: count, sum, least, greatest.
pub type SummaryTuple<'py> = (u64, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

impl Region {
    pub fn new(region: hanare::Region) -> Region {
        let may_wait = !region.is_local() || region.copies() > 1;
        Region { region: Arc::new(region), may_wait }
    }
}

#[pymethods]
impl Region {
    #[getter]
    fn name(&self) -> &str {
        self.region.name()
    }

    #[getter]
    fn gid(&self) -> u64 {
        self.region.gid().0
    }

    /// The number of the user whose it was when it was opened.
    #[getter]
    fn owner(&self) -> u32 {
        self.region.owner().uid
    }

    /// Its mode bits then.
    #[getter]
    fn mode(&self) -> u32 {
        self.region.mode()
    }

    #[getter]
    fn len(&self) -> u64 {
        self.region.len()
    }

    /// True if this handle may write.
    #[getter]
    fn writable(&self) -> bool {
        self.region.rights() == Rights::Write
    }

    /// True if the call that returned this handle made the region.
    #[getter]
    fn created(&self) -> bool {
        self.region.created()
    }

    /// True if all bytes are on this host.
    #[getter]
    fn is_local(&self) -> bool {
        self.region.is_local()
    }

    /// Bytes on each node: pairs of its number and a length.
    fn extents(&self) -> Vec<(u32, u64)> {
        self.region.layout().extents().map(|extent| (extent.node.0, extent.len)).collect()
    }

    /// Attributes under its name: values by name.
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(py);
        for (name, value) in self.region.attributes().iter() {
            told.set_item(name, PyBytes::new(py, value))?;
        }
        Ok(told)
    }

    /// Reads the blocks of a shape into a buffer.
    fn get(&self, py: Python<'_>, shape: ShapeTuple<'_>, into: &Bound<'_, PyAny>) -> PyResult<()> {
        let (shape, mut into) = (shape.hold()?, ObjectBytes::new_mut(into)?);
        let (shape, len) = (shape.shape()?, into.len());
        let into = into.bytes_mut();
        run(py, self.may_wait, len, || self.region.get_shape(shape, into))
    }

    /// Reads a range into a new `bytes`.
    fn get_bytes<'py>(&self, py: Python<'py>, offset: u64, len: usize) -> PyResult<Bound<'py, PyBytes>> {
        PyBytes::new_with(py, len, |into| run(py, self.may_wait, len, || self.region.get(offset, into)))
    }

    /// Writes a buffer into the blocks of a shape.
    fn put(&self, py: Python<'_>, shape: ShapeTuple<'_>, bytes: &Bound<'_, PyAny>) -> PyResult<()> {
        let (shape, bytes) = (shape.hold()?, ObjectBytes::new(bytes)?);
        let (shape, bytes) = (shape.shape()?, bytes.bytes());
        run(py, self.may_wait, bytes.len(), || self.region.put_shape(shape, bytes))
    }

    /// Fills the blocks of a shape with a pattern, over and over.
    fn fill(&self, py: Python<'_>, shape: ShapeTuple<'_>, pattern: &Bound<'_, PyAny>) -> PyResult<()> {
        let (shape, pattern) = (shape.hold()?, ObjectBytes::new(pattern)?);
        let (shape, pattern) = (shape.shape()?, pattern.bytes());
        run(py, true, 0, || self.region.fill(shape, pattern))
    }

    /// Count, sum, least and greatest of the elements of a shape that lie in a range.
    #[pyo3(signature = (shape, element, low=None, high=None))]
    fn reduce<'py>(
        &self,
        py: Python<'py>,
        shape: ShapeTuple<'_>,
        element: &str,
        low: Option<&Bound<'_, PyAny>>,
        high: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<SummaryTuple<'py>> {
        let (shape, element) = (shape.hold()?, element_of(element)?);
        let shape = shape.shape()?;
        let range = range_of(element, low, high)?;
        let summary = run(py, true, 0, || self.region.reduce(shape, element, range))?;
        told(py, &summary)
    }

    /// Updates the elements of a shape, each in one step; with `olds` reads those of before into it.
    #[pyo3(signature = (shape, element, operator, operands, olds=None))]
    fn update(
        &self,
        py: Python<'_>,
        shape: ShapeTuple<'_>,
        element: &str,
        operator: &str,
        operands: &Bound<'_, PyAny>,
        olds: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let modify = Modify { operator: operator_of(operator)?, element: element_of(element)? };
        let (shape, operands) = (shape.hold()?, ObjectBytes::new(operands)?);
        let (shape, operands) = (shape.shape()?, operands.bytes());
        let Some(olds) = olds else {
            return run(py, self.may_wait, operands.len(), || self.region.update(shape, modify, operands));
        };
        let mut olds = ObjectBytes::new_mut(olds)?;
        let olds = olds.bytes_mut();
        run(py, self.may_wait, operands.len(), || self.region.fetch(shape, modify, operands, olds))
    }

    /// Swaps the 64-bit word at `offset` for `new` if it is `expected`; the word before.
    fn compare_and_swap_word(&self, py: Python<'_>, offset: u64, expected: u64, new: u64) -> PyResult<u64> {
        run(py, self.may_wait, 0, || self.region.compare_and_swap_word(offset, expected, new))
    }

    /// Swaps the 64-bit words of a shape, each in one step, for those of `new` where they are those of `expected`; `olds` gets those before.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        shape: ShapeTuple<'_>,
        expected: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
        olds: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (shape, expected, new, mut olds) =
            (shape.hold()?, ObjectBytes::new(expected)?, ObjectBytes::new(new)?, ObjectBytes::new_mut(olds)?);
        let (shape, expected, new) = (shape.shape()?, expected.bytes(), new.bytes());
        let olds = olds.bytes_mut();
        run(py, self.may_wait, olds.len(), || self.region.compare_and_swap(shape, Element::U64, expected, new, olds))
    }

    /// Takes a block of the region's heap: its offset.
    fn allocate(&self, py: Python<'_>, len: u64) -> PyResult<u64> {
        run(py, true, 0, || self.region.heap().allocate(len, 1))
    }

    /// Gives a block back.
    fn free(&self, py: Python<'_>, offset: u64) -> PyResult<()> {
        run(py, true, 0, || self.region.heap().free(offset))
    }

    /// Begins to wait until the word of 8 bytes at `offset` is as wanted: `"equal"`, `"differs"`, `"at least"`, `"at most"`,
    /// `"greater"` or `"less"` than a number without a sign.
    #[pyo3(signature = (offset, until, number, seconds=None))]
    fn wait_until(&self, offset: u64, until: &str, number: u64, seconds: Option<f64>) -> PyResult<Pending> {
        let word = Word::U64(number);
        let until = match until {
            "equal" => Wait::Equal(word),
            "differs" => Wait::NotEqual(word),
            "at least" => Wait::AtLeast(word),
            "at most" => Wait::AtMost(word),
            "greater" => Wait::Greater(word),
            "less" => Wait::Less(word),
            other => {
                let known = "'equal', 'differs', 'at least', 'at most', 'greater', 'less'";
                return Err(PyValueError::new_err(format!("'{other}' is none of {known}")));
            }
        };
        let end = seconds.map(|seconds| Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let region = self.region.clone();
        Ok(begin(move |ending| {
            while ending.is_wanted() {
                let step = Duration::from_millis(WANTED_MS);
                let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                let is_last = left.is_some_and(|left| left <= step);
                match region.wait_until(offset, until, Some(left.unwrap_or(step).min(step))) {
                    Err(hanare::Error::NotInTime { .. }) if !is_last => {}
                    Ok(word) => return ending.end(Ok(Box::new(move |py| Ok(word.into_pyobject(py)?.into_any())))),
                    Err(error) => return ending.end(Err(error)),
                }
            }
        }))
    }

    /// The region's bytes in this program's memory; all of them are on this host.
    fn map_local(&self, py: Python<'_>) -> PyResult<View> {
        let mapping = py.detach(|| self.region.map_local()).map_err(raise)?;
        Ok(View::local(mapping, self.region.rights()))
    }

    /// The region's bytes in this program's memory, wherever they are: `"coherent"`, `"explicit"` or `"entry"`.
    fn map(&self, py: Python<'_>, consistency: &str) -> PyResult<View> {
        let consistency = match consistency {
            "coherent" => Consistency::Coherent,
            "explicit" => Consistency::Explicit,
            "entry" => Consistency::Entry,
            other => return Err(PyValueError::new_err(format!("'{other}' is none of 'coherent', 'explicit', 'entry'"))),
        };
        let mapping = py.detach(|| self.region.map(consistency)).map_err(raise)?;
        Ok(View::shared(mapping, self.region.rights()))
    }
}

/// The range of elements that count: all without both ends.
pub fn range_of(element: Element, low: Option<&Bound<'_, PyAny>>, high: Option<&Bound<'_, PyAny>>) -> PyResult<Range> {
    Ok(match (low, high) {
        (Some(low), Some(high)) if element.is_float() => Range::Float(low.extract()?, high.extract()?),
        (Some(low), Some(high)) => Range::Whole(low.extract()?, high.extract()?),
        _ => Range::all(element),
    })
}

/// A reduction's outcome as Python has it.
pub fn told<'py>(py: Python<'py>, summary: &Summary) -> PyResult<SummaryTuple<'py>> {
    let number = |value: Option<Value>| number(py, value);
    Ok((summary.count, number(Some(summary.sum()))?, number(summary.min)?, number(summary.max)?))
}

fn number(py: Python<'_>, value: Option<Value>) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        None => py.None().into_bound(py),
        Some(Value::Whole(whole)) => whole.into_pyobject(py)?.into_any(),
        Some(Value::Float(float)) => float.into_pyobject(py)?.into_any(),
    })
}

pub fn element_of(name: &str) -> PyResult<Element> {
    let found = Element::ALL.into_iter().find(|element| element.to_string() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("'{name}' is no kind of element")))
}

fn operator_of(name: &str) -> PyResult<Operator> {
    let found = Operator::ALL.into_iter().find(|operator| operator.to_string() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("'{name}' is no operator")))
}
