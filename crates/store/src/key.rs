//! The server's own keys, created once and stored next to the main database that they encrypt.

use domain::Rng;
use domain::secret::CodeKey;

use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::{query, scalar};
use crate::row::bytes;
use crate::{Store, in_transaction};

impl Store {
    /// The key under which short codes are sealed, generated on the first request of any process.
    #[boxed]
    pub async fn code_key(&self, rng: &Rng) -> Result<CodeKey, StoreError> {
        const ADD: &str = "INSERT INTO server_keys (name, secret) VALUES ('code', $1) ON CONFLICT (name) DO NOTHING";
        const GET: &str = "SELECT secret FROM server_keys WHERE name = 'code'";
        let drawn: [u8; 32] = rng.bytes();
        let secret: Vec<u8> = in_transaction!(&self.pool, |tx| {
            query(ADD).bind(&drawn[..]).execute(&mut *tx).await?;
            scalar(GET).fetch_one(&mut *tx).await
        })
        .during(Operation::GetKeyOfShortCodes)
        .await?;
        Ok(CodeKey::new(bytes("server_keys.secret", &secret)?))
    }
}
