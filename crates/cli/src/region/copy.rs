//! `hanare region cp`: between regions at the memory's side, and between regions and files with progress.
//!
//! A region holds bare elements: the terms of a `.npy` file's header (element type, order and shape) become attributes of the region, and
//! the header again when it is saved. Others can be given then (`--like`, or `--shape` and `--dtype`).

use super::PlacementArguments;
use super::npy;
use crate::progress::Progress;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hanare::{Array, Changes, Completion, CreateOptions, Pool, Region};
use hanare_protocol::Error;
use hanare_protocol::shape::Strided;
use hanare_protocol::size::Size;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes moved at once: long enough for full bandwidth, short enough for a smooth bar.
const CHUNK_LEN: usize = 4 << 20;

/// Copies SRC to DST.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "A word with '/' or '.' is a file, any other a region; `region:NAME` is a region whatever its name. The header of a .npy file \
    becomes attributes of the region, and the header again when it is saved as .npy; --like FILE.npy, or --shape and --dtype, give another \
    (one axis of bytes where nothing is known). A region that does not exist is created with the length needed; one that exists must have that length."
)]
pub struct CopyOptions {
    /// From this region or file.
    pub src: CopyEnd,
    /// To this region or file.
    pub dst: CopyEnd,
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
    pub place: PlacementArguments,
}

/// The axes of an array.
#[derive(Clone, Debug)]
pub struct Shape(Vec<u64>);

fn shape(text: &str) -> Result<Shape, String> {
    npy::parse_shape(text).map(Shape)
}

/// An end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// A region of the pool.
    Region(String),
    /// A file of this host.
    File(PathBuf),
}

impl FromStr for CopyEnd {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<CopyEnd, Self::Err> {
        Ok(match text.strip_prefix("region:") {
            Some(name) => CopyEnd::Region(name.to_owned()),
            None if text.contains(['/', '.']) => CopyEnd::File(PathBuf::from(text)),
            None => CopyEnd::Region(text.to_owned()),
        })
    }
}

fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "npy")
}

/// Does the copy.
pub fn run(pool: &Pool, options: &CopyOptions) -> Result<()> {
    let create = options.place.options();
    let is_array = matches!(&options.dst, CopyEnd::File(path) if is_npy(path));
    ensure!(
        is_array || (options.shape.is_none() && options.dtype.is_none() && options.like.is_none()),
        "--shape, --dtype and --like are for saving a region as .npy"
    );
    match (&options.src, &options.dst) {
        (CopyEnd::Region(from), CopyEnd::Region(to)) => copy_inside(pool, from, to, &create),
        (CopyEnd::File(path), CopyEnd::Region(name)) => load(pool, path, name, &create).map(|_| ()),
        (CopyEnd::Region(name), CopyEnd::File(path)) => {
            let region = pool.open(name)?;
            let array = if is_array { Some(array_of(options, &region)?) } else { None };
            save(&region, path, array.as_ref())
        }
        (CopyEnd::File(from), CopyEnd::File(to)) => {
            bail!(
                "{} and {} are both files; a region's name has no '/' or '.' (or write region:NAME)",
                from.display(),
                to.display()
            )
        }
    }
}

/// Terms of the region's bytes in the file.
fn array_of(options: &CopyOptions, region: &Region) -> Result<Array> {
    let len = region.len();
    let array = match (&options.like, &options.shape, &options.dtype) {
        (Some(path), ..) => npy::read(&mut BufReader::new(open(path)?)).with_context(|| path.display().to_string())?,
        (None, Some(Shape(shape)), dtype) => {
            Array::new(dtype.as_deref().context("--shape needs --dtype beside it, as in --dtype float64")?, shape)
        }
        (None, None, None) => match region.array()? {
            Some(array) => array,
            None => Array::new("|u1", &[len]),
        },
        (None, None, Some(dtype)) => {
            let one = Array::new(dtype, &[]).len_bytes()?.context("a record's shape has to be told, too")?;
            Array::new(dtype, &[len / one])
        }
    };
    if let Some(needed) = array.len_bytes()? {
        ensure!(needed == len, "an array of {array} has {:#}, the region {:#}", Size(needed), Size(len));
    }
    Ok(array)
}

/// Opens the region, or creates it, with exactly that length. It is told what array it holds from here on, where that is known.
fn take(pool: &Pool, name: &str, len: u64, create: &CreateOptions) -> Result<Region> {
    match pool.open(name) {
        Ok(region) if region.len() == len => {
            let told = create.attributes.iter().map(|(name, value)| (name.to_owned(), Some(value.to_vec())));
            let changes = Changes { attributes: told.collect(), ..Changes::default() };
            if changes.attributes.iter().any(|(name, value)| region.attributes().get(name) != value.as_deref()) {
                pool.alter(name, &changes)?;
            }
            Ok(region)
        }
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
    let target = take(pool, to, source.len(), &CreateOptions { attributes: source.attributes().clone(), ..create.clone() })?;
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
    let array =
        if is_npy(path) { Some(npy::read(&mut file).with_context(|| format!("{shown} cannot be loaded"))?) } else { None };
    // Bytes after a header are all elements; those of a plain type are counted.
    let counted = array.as_ref().map(Array::len_bytes).transpose()?.flatten();
    let rest = file.metadata().with_context(|| shown.clone())?.len().saturating_sub(file.stream_position()?);
    let len = counted.unwrap_or(rest);
    ensure!(len > 0, "{shown} holds no bytes, and a region has at least one");
    let mut create = create.clone();
    array.iter().for_each(|array| create.attributes = array.attributes());
    let region = take(pool, name, len, &create)?;
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
        if goes_on(&region) {
            region.put(offset, &chunk)?;
            progress.advance(moved);
            (spare, offset) = (Some(chunk), offset + moved);
            continue;
        }
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

/// True for a region with copies: its calls go on at the next home, those that were only started do not.
fn goes_on(region: &Region) -> bool {
    region.copies() > 1
}

fn write_whole(region: &Region, path: &Path, array: Option<&Array>, shown: &str) -> Result<()> {
    let failed = || format!("cannot write {shown}");
    let mut file = BufWriter::new(File::create(path).with_context(failed)?);
    if let Some(array) = array {
        npy::write(array, &mut file).with_context(failed)?;
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
    let mut offset = 0;
    while goes_on(region) && offset < len {
        let mut chunk = vec![0; CHUNK_LEN.min((len - offset) as usize)];
        region.get(offset, &mut chunk)?;
        file.write_all(&chunk).with_context(failed)?;
        progress.advance(chunk.len() as u64);
        offset += chunk.len() as u64;
    }
    // While one chunk is written the next one travels.
    let mut on_the_way = get(offset, None)?;
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
        let place = |text: &str| text.parse::<CopyEnd>().unwrap();
        assert_eq!(place("a"), CopyEnd::Region("a".to_owned()));
        assert_eq!(place("a.npy"), CopyEnd::File("a.npy".into()));
        assert_eq!(place("./a"), CopyEnd::File("./a".into()));
        assert_eq!(place("region:a.b"), CopyEnd::Region("a.b".to_owned()));
    }
}
