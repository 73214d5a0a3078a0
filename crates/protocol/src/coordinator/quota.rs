//! How many bytes a user may have in regions. Regions that are lost count until they are removed.

use crate::error::{Error, Result};

/// Refuses `asked` bytes on top of `used` beyond the quota; `None` is no quota.
pub(super) fn check(quota: Option<u64>, uid: u32, used: u64, asked: u64) -> Result<()> {
    match quota {
        Some(limit) if used.checked_add(asked).is_none_or(|sum| sum > limit) => {
            Err(Error::QuotaExceeded { uid, asked, used, limit })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_itself_may_be_used_but_no_byte_more() {
        assert_eq!(check(Some(10), 1, 4, 6), Ok(()));
        assert_eq!(check(Some(10), 1, 4, 7), Err(Error::QuotaExceeded { uid: 1, asked: 7, used: 4, limit: 10 }));
        assert!(check(Some(10), 1, 4, u64::MAX).is_err());
        assert_eq!(check(None, 1, u64::MAX, 1), Ok(()));
    }
}
