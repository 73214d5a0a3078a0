//! The pool as Python sees it: names, listings, and what belongs to no region.

use crate::errors::raise;
use crate::memory::{ObjectBytes, check_apart, run};
use crate::queue::{self, Queue};
use crate::region::{self, Region, SummaryTuple, element_of, range_of};
use crate::shapes::ShapeTuple;
use crate::sync::{self, Asked, Group};
use crate::waiting::Pending;
use hanare::tenant_file::TenantFile;
use hanare::{Changes, CreateOptions, Dim, Element, Error, PlacementWish, Range, Rights, Shape, Subarray, Summary, Trust};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A region, an offset in it, and a buffer.
type RegionBytes<'py> = (Bound<'py, Region>, u64, Bound<'py, PyAny>);

/// An attachment to the pool.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Pool {
    pub pool: hanare::Pool,
}

#[pymethods]
impl Pool {
    /// Attaches to the node at `socket`, or at that of the settings; as the rank that the launcher's environment names. The program is of the
    /// tenant whose file is named here, or in the environment.
    #[staticmethod]
    #[pyo3(signature = (socket=None, tenant=None))]
    fn attach(py: Python<'_>, socket: Option<String>, tenant: Option<PathBuf>) -> PyResult<Pool> {
        let attach = || {
            let socket = socket.unwrap_or_else(hanare::settings::node_socket);
            let tenant = tenant.map(TenantFile).or_else(hanare::settings::tenant);
            hanare::Pool::attach_as(&socket, hanare::launch::job_rank()?, tenant)
        };
        Ok(Pool { pool: py.detach(attach).map_err(raise)? })
    }

    #[getter]
    fn rank(&self) -> u32 {
        self.pool.rank()
    }

    #[getter]
    fn ranks(&self) -> u32 {
        self.pool.ranks()
    }

    /// The number of this host's node.
    #[getter]
    fn node(&self) -> u32 {
        self.pool.node().0
    }

    /// The user of this program, as its node's kernel says.
    #[getter]
    fn user(&self) -> u32 {
        self.pool.user().uid
    }

    /// The same attachment, which believes in regions of those users too, or in all.
    fn trusting(&self, users: Vec<u32>, anyone: bool) -> Pool {
        let own = Trust::own(&self.pool);
        let trust = users.into_iter().fold(if anyone { own.and_anyone() } else { own }, Trust::and_user);
        Pool { pool: self.pool.trusting(trust) }
    }

    /// True where regions of that user are believed in.
    fn includes(&self, user: u32) -> bool {
        self.pool.trust().includes(user)
    }

    /// Refuses a region of a user that is not trusted.
    fn check_owner(&self, name: &str, owner: u32) -> PyResult<()> {
        self.pool.trust().check(name, owner).map_err(raise)
    }

    /// Answers two questions: may none but this user have written the region, and none but users that are trusted?
    fn writers_of(&self, region: &Region) -> (bool, bool) {
        let trust = self.pool.trust();
        (trust.is_alone_in(&region.region), trust.vouches_for(&region.region))
    }

    /// The client's id.
    #[getter]
    fn client(&self) -> u64 {
        self.pool.client().0
    }

    /// Makes a region with what is kept with its name; with `attach` opens one of that name and length that is there.
    #[allow(clippy::too_many_arguments, reason = "Python's words for it have one more")]
    #[pyo3(signature = (name, len, place, mode, attach, attributes, copies=None))]
    fn create(
        &self,
        py: Python<'_>,
        name: &str,
        len: u64,
        place: &str,
        mode: u32,
        attach: bool,
        attributes: BTreeMap<String, Vec<u8>>,
        copies: Option<u8>,
    ) -> PyResult<Region> {
        let place: PlacementWish = place.parse().map_err(raise)?;
        let options = CreateOptions {
            copies: copies.unwrap_or_default(),
            mode,
            attributes: attributes.into_iter().collect(),
            ..CreateOptions::default()
        }
        .at(place);
        let make =
            || if attach { self.pool.create_or_attach(name, len, &options) } else { self.pool.create(name, len, &options) };
        py.detach(make).map(Region::new).map_err(raise)
    }

    /// Opens a region of a user that is trusted, for the most that this user may do.
    fn open_trusted(&self, py: Python<'_>, name: &str) -> PyResult<Region> {
        py.detach(|| self.pool.open_trusted(name)).map(Region::new).map_err(raise)
    }

    /// Opens a region, whoever's: for reading (`"r"`), for writing too (`"w"`), or for the most that this user may do.
    fn open(&self, py: Python<'_>, name: &str, rights: Option<&str>) -> PyResult<Region> {
        let rights = match rights {
            None => None,
            Some("r") => Some(Rights::Read),
            Some("w") => Some(Rights::Write),
            Some(other) => return Err(PyValueError::new_err(format!("rights are 'r' or 'w', not '{other}'"))),
        };
        let open = || match rights {
            Some(rights) => self.pool.open_for(name, rights),
            None => self.pool.open(name),
        };
        py.detach(open).map(Region::new).map_err(raise)
    }

    /// Makes a region longer.
    fn resize(&self, py: Python<'_>, name: &str, len: u64) -> PyResult<Region> {
        py.detach(|| self.pool.resize(name, len)).map(Region::new).map_err(raise)
    }

    /// Gives a region another name or number of copies, or changes what is kept with it; `None` takes a value away.
    #[pyo3(signature = (name, new_name, attributes, copies=None))]
    fn alter(
        &self,
        py: Python<'_>,
        name: &str,
        new_name: Option<String>,
        attributes: BTreeMap<String, Option<Vec<u8>>>,
        copies: Option<u8>,
    ) -> PyResult<()> {
        let changes = Changes { name: new_name, attributes, copies, ..Changes::default() };
        py.detach(|| self.pool.alter(name, &changes)).map_err(raise)
    }

    /// Removes a region.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.pool.remove(name)).map_err(raise)
    }

    /// Describes a region, as JSON.
    fn stat(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        json(&py.detach(|| self.pool.stat(name)).map_err(raise)?)
    }

    /// Describes all regions, as JSON.
    fn list(&self, py: Python<'_>) -> PyResult<String> {
        json(&py.detach(|| self.pool.list()).map_err(raise)?)
    }

    /// Describes the pool's nodes, as JSON.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        json(&py.detach(|| self.pool.status()).map_err(raise)?)
    }

    /// State and counts of each node, as JSON: pairs of its number and its report, or null where it did not reply.
    fn look(&self, py: Python<'_>) -> PyResult<String> {
        let looked = py.detach(|| {
            let nodes = self.pool.status()?.nodes;
            Ok(nodes.iter().map(|node| (node.node, self.pool.look(node, &[], 0).ok())).collect::<Vec<_>>())
        });
        json(&looked.map_err(raise)?)
    }

    /// Waits until all earlier writes are visible at their home.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.pool.flush()).map_err(raise)
    }

    /// Messages sent and received, bytes sent and received, so far.
    fn traffic(&self) -> (u64, u64, u64, u64) {
        let traffic = self.pool.traffic();
        (traffic.messages_sent, traffic.messages_received, traffic.bytes_sent, traffic.bytes_received)
    }

    /// Copies the blocks of one shape to those of another; the bytes go from node to node.
    fn copy(
        &self,
        py: Python<'_>,
        from: &Region,
        from_shape: ShapeTuple<'_>,
        to: &Region,
        to_shape: ShapeTuple<'_>,
    ) -> PyResult<()> {
        let (from_shape, to_shape) = (from_shape.hold()?, to_shape.hold()?);
        let (from_shape, to_shape) = (from_shape.shape()?, to_shape.shape()?);
        run(py, true, 0, || self.pool.copy(&from.region, from_shape, &to.region, to_shape))
    }

    /// Reads ranges of any regions, each into its buffer, as one batch: `(region, offset, buffer)` each.
    fn get_each(&self, py: Python<'_>, gets: Vec<RegionBytes<'_>>) -> PyResult<()> {
        let mut into = gets.iter().map(|get| ObjectBytes::new_mut(&get.2)).collect::<PyResult<Vec<ObjectBytes>>>()?;
        check_apart(&into)?;
        let (may_wait, len) = weight(&gets, &into);
        let regions = gets.iter().map(|get| (&*get.0.get().region, get.1));
        let places: Vec<_> = regions.zip(into.iter_mut().map(ObjectBytes::bytes_mut)).collect();
        run(py, may_wait, len, || {
            self.pool.batch(|batch| places.into_iter().try_for_each(|((region, offset), into)| batch.get(region, offset, into)))
        })
    }

    /// Writes buffers into ranges of any regions, as one batch: `(region, offset, buffer)` each.
    fn put_each(&self, py: Python<'_>, puts: Vec<RegionBytes<'_>>) -> PyResult<()> {
        let from = puts.iter().map(|put| ObjectBytes::new(&put.2)).collect::<PyResult<Vec<ObjectBytes>>>()?;
        let (may_wait, len) = weight(&puts, &from);
        let regions = puts.iter().map(|put| (&*put.0.get().region, put.1));
        let places: Vec<_> = regions.zip(from.iter().map(ObjectBytes::bytes)).collect();
        run(py, may_wait, len, || {
            self.pool.batch(|batch| places.into_iter().try_for_each(|((region, offset), from)| batch.put(region, offset, from)))
        })
    }

    /// Reduces blocks of a region that lie alike from each of several offsets on. Tells of each what `Region.reduce` tells. **Cost**: a batch for
    /// each 1024.
    #[allow(clippy::too_many_arguments, reason = "a shape, where it is, and which elements")]
    #[pyo3(signature = (region, block, dims, offsets, element, low=None, high=None))]
    fn reduce_each<'py>(
        &self,
        py: Python<'py>,
        region: &Region,
        block: u64,
        dims: Vec<(u64, i64)>,
        offsets: Vec<u64>,
        element: &str,
        low: Option<&Bound<'py, PyAny>>,
        high: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<SummaryTuple<'py>>> {
        let dims: Vec<Dim> = dims.into_iter().map(|(count, stride)| Dim { count, stride }).collect();
        let element = element_of(element)?;
        let range = range_of(element, low, high)?;
        let mut told = Vec::with_capacity(offsets.len());
        for part in offsets.chunks(REDUCED_COUNT) {
            let summaries =
                py.detach(|| self.reduce_part(&region.region, block, &dims, part, (element, range))).map_err(raise)?;
            for summary in summaries.iter().flatten() {
                told.push(region::told(py, summary)?);
            }
            py.check_signals()?;
        }
        Ok(told)
    }

    /// Begins to take a lock; `seconds` is how long it may take.
    #[pyo3(signature = (name, is_shared=false, seconds=None))]
    fn lock(&self, name: String, is_shared: bool, seconds: Option<f64>) -> PyResult<Pending> {
        let bound = seconds.map(Duration::try_from_secs_f64).transpose();
        let bound = bound.map_err(|odd| PyValueError::new_err(format!("{odd}")))?;
        Ok(sync::lock(self.pool.clone(), name, Asked { is_shared, bound }))
    }

    /// Says who may use a name of locks and groups.
    fn permit(&self, py: Python<'_>, name: &str, mode: u32) -> PyResult<()> {
        py.detach(|| self.pool.permit(name, mode)).map_err(raise)
    }

    /// Joins a group of parties that meet.
    fn group(&self, py: Python<'_>, name: &str, parties: u32) -> PyResult<Group> {
        sync::join(py, &self.pool, name, parties)
    }

    /// Makes a queue.
    #[pyo3(signature = (name, form, place, mode, copies=None))]
    fn create_queue(
        &self,
        py: Python<'_>,
        name: &str,
        form: queue::Form<'_>,
        place: &str,
        mode: u32,
        copies: Option<u8>,
    ) -> PyResult<Queue> {
        queue::create(py, &self.pool, name, form, (place, mode, copies))
    }

    /// Opens a queue.
    fn open_queue(&self, py: Python<'_>, name: &str) -> PyResult<Queue> {
        queue::open(py, &self.pool, name)
    }

    /// Says that the program's end is no death from here on.
    fn leave(&self, py: Python<'_>) {
        py.detach(|| self.pool.leave());
    }

    /// Begins to wait for all ranks of the job.
    fn barrier(&self) -> Pending {
        sync::barrier(self.pool.clone())
    }
}

/// Reductions of one batch: some hundred KiB of commands and outcomes.
const REDUCED_COUNT: usize = 1024;

impl Pool {
    fn reduce_part(
        &self,
        region: &hanare::Region,
        block: u64,
        dims: &[Dim],
        offsets: &[u64],
        (element, range): (Element, Range),
    ) -> hanare::Result<Vec<Option<Summary>>> {
        let once = || {
            let mut told = vec![None; offsets.len()];
            self.pool.batch(|batch| {
                offsets.iter().zip(&mut told).try_for_each(|(offset, into)| {
                    let shape = Shape::from(Subarray::new(*offset, block, dims)?).joined();
                    batch.reduce(region, shape, element, range, into)
                })
            })?;
            Ok(told)
        };
        match once() {
            // A batch is not repeated by itself; one that only reads may be, with the grants of today.
            Err(Error::GrantRefused { .. }) => once(),
            other => other,
        }
    }
}

/// True if any of the regions has bytes on other hosts; then the bytes of all buffers.
fn weight(places: &[RegionBytes<'_>], buffers: &[ObjectBytes]) -> (bool, usize) {
    (places.iter().any(|place| place.0.get().may_wait), buffers.iter().map(ObjectBytes::len).sum())
}

fn json(told: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(told).map_err(|odd| PyValueError::new_err(odd.to_string()))
}
