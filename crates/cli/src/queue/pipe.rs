//! Standard input into a queue, and a queue to standard output.

use super::{RecvOptions, SendOptions};
use anyhow::{Context, Result, bail};
use hanare::{Error, Queue, Unit, WritePort};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write, stdin, stdout};

/// Sends standard input to its end.
///
/// **Errors**: where it does not end with a block, and those of the queue.
pub fn send(queue: &Queue, options: &SendOptions) -> Result<()> {
    let mut writer = queue.writer()?;
    match queue.form().unit {
        Unit::Blocks { .. } if options.lines => bail!("lines are records, and queue {} has blocks", queue.name()),
        Unit::Blocks { len } => send_blocks(&mut writer, len as usize)?,
        Unit::Records { len_max } if options.lines => send_lines(&mut writer, len_max as usize)?,
        Unit::Records { len_max } => send_records(&mut writer, len_max as usize)?,
    }
    if let (Unit::Records { .. }, false) = (queue.form().unit, options.no_end) {
        writer.send(&[])?;
    }
    Ok(writer.close()?)
}

/// Sends standard input, in records as long as what comes at once.
fn send_records(writer: &mut WritePort, len_max: usize) -> Result<()> {
    let (mut input, mut bytes) = (stdin().lock(), vec![0; len_max]);
    loop {
        match input.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(len) => writer.send(&bytes[..len])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("reading standard input"),
        }
    }
}

/// Sends each line as a record, with its end, so that `recv` without options gives the same bytes.
fn send_lines(writer: &mut WritePort, len_max: usize) -> Result<()> {
    let (mut input, mut line) = (BufReader::new(stdin().lock()), Vec::new());
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).context("reading standard input")? == 0 {
            return Ok(writer.publish()?);
        }
        if line.len() > len_max {
            bail!("a line of {} bytes, its end included, is longer than the queue's records of {len_max}", line.len());
        }
        writer.claim(line.len(), None)?;
        writer.fill(0, &line);
        // Before more is waited for, all that came is there.
        if input.buffer().is_empty() { writer.commit() } else { writer.commit_started() }?;
    }
}

fn send_blocks(writer: &mut WritePort, len: usize) -> Result<()> {
    let (mut input, mut block) = (BufReader::new(stdin().lock()), vec![0; len]);
    loop {
        if input.fill_buf().context("reading standard input")?.is_empty() {
            writer.publish()?;
            return Ok(());
        }
        input.read_exact(&mut block).with_context(|| format!("standard input is no whole number of blocks of {len} bytes"))?;
        writer.claim(len, None)?;
        writer.fill(0, &block);
        writer.keep();
        // Input that comes at once is committed at once.
        if input.buffer().is_empty() {
            writer.publish()?;
        }
    }
}

/// Receives until all writers have sent all, or what else ends it.
///
/// **Errors**: where a writer died, when all that the others send has come; those of the queue.
pub fn receive(queue: &Queue, options: &RecvOptions) -> Result<()> {
    let is_records = matches!(queue.form().unit, Unit::Records { .. });
    let (mut reader, mut output, mut unit) = (queue.reader()?, stdout().lock(), Vec::new());
    let (mut left, mut writers, mut died) = (options.count, options.writers, None);
    while left != Some(0) && writers > 0 {
        // Units that are not freed when this program dies stay for the next.
        let seen = match reader.try_see() {
            Ok(None) => {
                output.flush().or_else(end_quietly)?;
                reader.see(options.within)
            }
            Ok(Some(seen)) => Ok(seen),
            Err(error) => Err(error),
        };
        let seen = match seen {
            Ok(seen) => seen,
            Err(Error::NotInTime { .. }) => break,
            Err(error @ Error::WriterGone { .. }) => {
                writers -= 1;
                died = Some(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        unit.resize(seen.len(), 0);
        reader.read(&seen, 0, &mut unit);
        if is_records && unit.is_empty() {
            writers -= 1;
        } else {
            let line_end: &[u8] = if options.lines && !unit.ends_with(b"\n") { b"\n" } else { b"" };
            output.write_all(&unit).and_then(|()| output.write_all(line_end)).or_else(end_quietly)?;
            left = left.map(|left| left - 1);
        }
        reader.free(&seen)?;
    }
    output.flush().or_else(end_quietly)?;
    reader.close()?;
    died.map_or(Ok(()), |error| Err(error.into()))
}

/// A pipe whose other end has seen enough is no failure to tell of.
fn end_quietly(error: std::io::Error) -> Result<()> {
    if error.kind() == ErrorKind::BrokenPipe {
        bail!("nobody reads standard output any more; what was not written stays in the queue");
    }
    Err(error).context("writing standard output")
}
