//! What a command is refused for before it moves a byte. Nobody is asked: what a node would refuse besides shows when it runs.
//!
//! For the commands of this crate, and for faces that keep commands and run them later.

use crate::client::command::calls::Modify;
use crate::client::region::Region;
use hanare_protocol::element::{Element, Range};
use hanare_protocol::id::Rights;
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{Op, Update};
use hanare_protocol::{Error, Result};

impl Region {
    /// Refuses commands that write where the handle only reads.
    ///
    /// **Errors**: [`Error::BadUse`].
    pub fn check_rights(&self, op: Op) -> Result<()> {
        if op.writes() && self.rights() != Rights::Write {
            let reason = "it was opened for reading; open it for writing to change it".to_owned();
            return Err(Error::BadUse { region: self.name().to_owned(), reason });
        }
        Ok(())
    }

    /// The shape, if the region has its bytes.
    ///
    /// **Cost**: a look at each index of a list. **Errors**: those of [`Shape::check`].
    pub fn fit<'s>(&self, shape: Shape<'s>) -> Result<Checked<'s>> {
        shape.check(self.name(), self.len()).map(Checked::joined)
    }

    /// As [`Region::fit`], with the grants of today where some were refused.
    pub(crate) fn checked<'s>(&self, shape: Shape<'s>) -> Result<Checked<'s>> {
        self.refresh_if_refused()?;
        self.fit(shape)
    }

    /// Refuses a buffer of another length than it should have.
    ///
    /// **Errors**: [`Error::BadShape`], which calls it `what`.
    pub fn check_len(&self, shape: &Checked<'_>, what: &str, len: u64, wanted: u64) -> Result<()> {
        if len == wanted {
            return Ok(());
        }
        Err(shape.refused(self.name(), format!("{what} must have {wanted} bytes, not {len}")))
    }

    /// Refuses a pattern that does not fill the shape a whole number of times. **Errors**: [`Error::BadShape`].
    pub fn check_pattern(&self, shape: &Checked<'_>, len: u64) -> Result<()> {
        if (1..=STAGE_LEN as u64).contains(&len) && shape.len().is_multiple_of(len) {
            return Ok(());
        }
        let reason =
            format!("a pattern of {len} bytes does not fill it: it needs 1 to {STAGE_LEN}, and a whole number of patterns");
        Err(shape.refused(self.name(), reason))
    }

    /// Refuses a reduction of blocks that are no whole elements, or to a range of other numbers. **Errors**: [`Error::BadElement`].
    pub fn check_reduction(&self, shape: &Checked<'_>, element: Element, range: &Range) -> Result<()> {
        shape.check_elements(self.name(), "a reduction", element, false)?;
        if matches!(range, Range::Float(..)) != element.is_float() {
            return Err(self.bad_element("a reduction", element, "the range must be of the same kind of numbers"));
        }
        Ok(())
    }

    /// The update as nodes know it, if it can be done to these elements with so many bytes of operands.
    ///
    /// **Errors**: [`Error::BadElement`], [`Error::BadShape`].
    pub fn check_update(&self, shape: &Checked<'_>, modify: Modify, operand_len: u64) -> Result<Update> {
        let Modify { operator, element } = modify;
        if !operator.fits(element) {
            let reason = "updates take elements of 32 and 64 bits, and/or/xor whole numbers";
            return Err(self.bad_element(&operator.to_string(), element, reason));
        }
        shape.check_elements(self.name(), &operator.to_string(), element, true)?;
        let is_same = operand_len == element.len() && shape.len() != element.len();
        if !is_same {
            self.check_len(shape, "the operands", operand_len, shape.len())?;
        }
        Ok(Update { operator, element, is_same })
    }

    /// Refuses to compare and swap what is not whole words, or with too few or many values: expected and new ones together.
    ///
    /// **Errors**: [`Error::BadElement`], [`Error::BadShape`].
    pub fn check_swap(&self, shape: &Checked<'_>, element: Element, values_len: u64) -> Result<()> {
        if element.len() < 4 {
            return Err(self.bad_element("compare and swap", element, "it takes elements of 32 and 64 bits"));
        }
        shape.check_elements(self.name(), "compare and swap", element, true)?;
        self.check_len(shape, "expected and new values together", values_len, shape.len().saturating_mul(2))
    }

    fn bad_element(&self, operation: &str, element: Element, reason: &str) -> Error {
        let (region, operation, element) = (self.name().to_owned(), operation.to_owned(), element.to_string());
        Error::BadElement { region, operation, element, reason: reason.to_owned() }
    }
}

/// A shape of the caller's own buffer of so many bytes, if it has them. **Errors**: those of [`Shape::check`].
pub fn fit_buffer(shape: Shape<'_>, len: u64) -> Result<Checked<'_>> {
    shape.check("of the caller's buffer", len).map(Checked::joined)
}
