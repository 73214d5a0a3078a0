//! `hanare region cp`: between regions at the memory's side, and between regions and files with progress.
//!
//! A region holds bare elements: a `.npy` file's header stays out of it, and what it said is given again when the region is
//! saved (`--like`, or `--shape` and `--dtype`).

use super::PlaceArguments;
use super::npy::{self, Array};
use crate::progress::Progress;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hanare::{Completion, CreateOptions, Pool, Region};
use hanare_protocol::Error;
use hanare_protocol::shape::Strided;
use hanare_protocol::size::Size;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes moved at once: long enough for full bandwidth, short enough for a smooth bar.
const CHUNK_LEN: usize = 4 << 20;

/// Copies SRC to DST.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "A word with '/' or '.' is a file, any other a region; `region:NAME` is a region whatever its name. A .npy file's elements go into the \
    region without their header; to save them as .npy again, give --like FILE.npy, or --shape and --dtype (one axis of bytes without either). \
    A region that does not exist is created with the length needed; one that exists must have that length."
)]
pub struct CopyOptions {
    /// From this region or file.
    pub src: Place,
    /// To this region or file.
    pub dst: Place,
    /// Shape of the .npy file to write, as 1024x1024.
    #[arg(long, value_parser = shape)]
    pub shape: Option<Shape>,
    /// Element type of the .npy file to write: float64, <f8, uint8 ...
    #[arg(long, value_parser = npy::parse_dtype)]
    pub dtype: Option<String>,
    /// Take shape and element type from this .npy file.
    #[arg(long, value_name = "FILE.npy", conflicts_with_all = ["shape", "dtype"])]
    pub like: Option<PathBuf>,
    #[command(flatten)]
    pub place: PlaceArguments,
}

/// The axes of an array.
#[derive(Clone, Debug)]
pub struct Shape(Vec<u64>);

fn shape(text: &str) -> Result<Shape, String> {
    npy::parse_shape(text).map(Shape)
}

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A region of the pool.
    Region(String),
    /// A file of this host.
    File(PathBuf),
}

impl FromStr for Place {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Place, Self::Err> {
        Ok(match text.strip_prefix("region:") {
            Some(name) => Place::Region(name.to_owned()),
            None if text.contains(['/', '.']) => Place::File(PathBuf::from(text)),
            None => Place::Region(text.to_owned()),
        })
    }
}

fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "npy")
}

/// Does the copy.
pub fn run(pool: &Pool, options: &CopyOptions) -> Result<()> {
    let create = options.place.options();
    let is_array = matches!(&options.dst, Place::File(path) if is_npy(path));
    ensure!(
        is_array || (options.shape.is_none() && options.dtype.is_none() && options.like.is_none()),
        "--shape, --dtype and --like are for saving a region as .npy"
    );
    match (&options.src, &options.dst) {
        (Place::Region(from), Place::Region(to)) => copy_inside(pool, from, to, &create),
        (Place::File(path), Place::Region(name)) => load(pool, path, name, &create).map(|_| ()),
        (Place::Region(name), Place::File(path)) => {
            let region = pool.open(name)?;
            let array = if is_array { Some(array_of(options, region.len())?) } else { None };
            save(&region, path, array.as_ref())
        }
        (Place::File(from), Place::File(to)) => {
            bail!(
                "{} and {} are both files; a region's name has no '/' or '.' (or write region:NAME)",
                from.display(),
                to.display()
            )
        }
    }
}

/// What the region's bytes are to be called in the file.
fn array_of(options: &CopyOptions, len: u64) -> Result<Array> {
    let array = match (&options.like, &options.shape, &options.dtype) {
        (Some(path), ..) => Array::read(&mut BufReader::new(open(path)?)).with_context(|| path.display().to_string())?,
        (None, Some(Shape(shape)), dtype) => Array {
            shape: shape.clone(),
            dtype: dtype.clone().context("--shape needs --dtype beside it, as in --dtype float64")?,
        },
        (None, None, dtype) => {
            let one = Array { shape: vec![], dtype: dtype.clone().unwrap_or_else(|| "|u1".to_owned()) };
            Array { shape: vec![len / one.len_bytes()?], dtype: one.dtype }
        }
    };
    let needed = array.len_bytes()?;
    let axes = array.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
    ensure!(
        needed == len,
        "an array of {axes} elements of type {} has {:#}, the region {:#}",
        array.dtype,
        Size(needed),
        Size(len)
    );
    Ok(array)
}

/// Opens the region, or creates it, with exactly that length.
fn take(pool: &Pool, name: &str, len: u64, create: &CreateOptions) -> Result<Region> {
    match pool.open(name) {
        Ok(region) if region.len() == len => Ok(region),
        Ok(region) => bail!(
            "region '{name}' has {:#} and {:#} are to be copied; remove it, resize it, or choose another name",
            Size(region.len()),
            Size(len)
        ),
        Err(Error::UnknownRegion { .. }) => Ok(pool.create(name, len, create)?),
        Err(error) => Err(error.into()),
    }
}

fn copy_inside(pool: &Pool, from: &str, to: &str, create: &CreateOptions) -> Result<()> {
    let source = pool.open(from)?;
    let target = take(pool, to, source.len(), create)?;
    ensure!(source.gid() != target.gid(), "'{from}' and '{to}' are the same region");
    let mut progress = Progress::start(&format!("{from} to {to}"), source.len());
    // At the memory's side a chunk costs one message, so it may be long.
    let step = CHUNK_LEN as u64 * 16;
    for offset in (0..source.len()).step_by(step as usize) {
        let range = Strided::contiguous(offset, step.min(source.len() - offset));
        pool.copy(&source, range, &target, range)?;
        progress.advance(range.block);
    }
    progress.finish();
    Ok(())
}

/// Loads a file into a region, which is created where it does not exist. Returns the region.
pub fn load(pool: &Pool, path: &Path, name: &str, create: &CreateOptions) -> Result<Region> {
    let shown = path.display().to_string();
    let mut file = open(path)?;
    let len = if is_npy(path) {
        Array::read(&mut file).and_then(|array| array.len_bytes()).with_context(|| format!("{shown} cannot be loaded"))?
    } else {
        file.metadata().with_context(|| shown.clone())?.len()
    };
    ensure!(len > 0, "{shown} holds no bytes, and a region has at least one");
    let region = take(pool, name, len, create)?;
    let mut progress = Progress::start(&format!("{shown} to {name}"), len);
    // While one chunk travels the next one is read.
    let mut on_the_way: Option<Completion<Vec<u8>>> = None;
    let mut spare = Some(vec![0; CHUNK_LEN]);
    let mut offset = 0;
    while offset < len {
        let mut chunk = spare.take().unwrap_or_else(|| vec![0; CHUNK_LEN]);
        chunk.resize(CHUNK_LEN.min((len - offset) as usize), 0);
        file.read_exact(&mut chunk).with_context(|| format!("{shown} ends before its {:#} of elements", Size(len)))?;
        let moved = chunk.len() as u64;
        let next = region.start_put(offset, chunk)?;
        if let Some(previous) = on_the_way.replace(next) {
            let chunk = previous.wait()?;
            progress.advance(chunk.len() as u64);
            spare = Some(chunk);
        }
        offset += moved;
    }
    if let Some(last) = on_the_way {
        progress.advance(last.wait()?.len() as u64);
    }
    progress.finish();
    Ok(region)
}

/// Saves a region to a file, which appears under its name only when it is whole.
pub fn save(region: &Region, path: &Path, array: Option<&Array>) -> Result<()> {
    let shown = path.display().to_string();
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".part");
    let unfinished = PathBuf::from(unfinished);
    let result = write_whole(region, &unfinished, array, &shown)
        .and_then(|()| std::fs::rename(&unfinished, path).with_context(|| format!("cannot name {shown}")));
    if result.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    result
}

fn write_whole(region: &Region, path: &Path, array: Option<&Array>, shown: &str) -> Result<()> {
    let failed = || format!("cannot write {shown}");
    let mut file = BufWriter::new(File::create(path).with_context(failed)?);
    if let Some(array) = array {
        array.write(&mut file).with_context(failed)?;
    }
    let len = region.len();
    let mut progress = Progress::start(&format!("{} to {shown}", region.name()), len);
    let get = |offset: u64, buffer: Option<Vec<u8>>| -> Result<Option<Completion<Vec<u8>>>> {
        if offset >= len {
            return Ok(None);
        }
        let mut buffer = buffer.unwrap_or_default();
        buffer.resize(CHUNK_LEN.min((len - offset) as usize), 0);
        Ok(Some(region.start_get(offset, buffer)?))
    };
    // While one chunk is written the next one travels.
    let mut offset = 0;
    let mut on_the_way = get(0, None)?;
    let mut spare = None;
    while let Some(completion) = on_the_way {
        let chunk = completion.wait()?;
        offset += chunk.len() as u64;
        on_the_way = get(offset, spare.take())?;
        file.write_all(&chunk).with_context(failed)?;
        progress.advance(chunk.len() as u64);
        spare = Some(chunk);
    }
    file.flush().with_context(failed)?;
    progress.finish();
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    ensure!(!file.metadata()?.is_dir(), "cannot open {}: it is a folder", path.display());
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_with_a_slash_or_a_dot_is_a_file_unless_it_says_region() {
        let place = |text: &str| text.parse::<Place>().unwrap();
        assert_eq!(place("a"), Place::Region("a".to_owned()));
        assert_eq!(place("a.npy"), Place::File("a.npy".into()));
        assert_eq!(place("./a"), Place::File("./a".into()));
        assert_eq!(place("region:a.b"), Place::Region("a.b".to_owned()));
    }
}
