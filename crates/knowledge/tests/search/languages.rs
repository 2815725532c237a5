//! Memories in several languages, found by lexical search.

use domain::Rng;
use domain::language::Language;
use domain::words::{asked, counted};
use knowledge::embed::{Embedder, EmbeddingProvider, EmbeddingSettings};
use knowledge::search::{Search, Settings};
use store::memory::MemoryScope;

use crate::world::{World, query, titles};
use harness::on_each_vector_index;

/// Code, text, and a query with another form of one of its words.
const TEXTS: [(&str, &str, &str); 10] = [
    (
        "en",
        "The ferries to the island leave the old harbour at seven in the morning, and the last boat comes back at noon.",
        "ferry",
    ),
    (
        "de",
        "Die Fähre zur Insel fährt um sieben Uhr morgens ab, und in den alten Häusern am Ufer wohnen seit vielen Jahren Fischer.",
        "Haus",
    ),
    (
        "fr",
        "Les bateaux pour les îles quittent le vieux port à sept heures du matin, et les pêcheurs reviennent à midi avec leurs filets.",
        "bateau",
    ),
    (
        "es",
        "Los pescadores zarparon del puerto viejo a las siete de la mañana y volvieron al mediodía con las redes llenas de pescado.",
        "zarpar",
    ),
    (
        "it",
        "I traghetti per le isole lasciano il vecchio molo alle sette del mattino, e i pescatori tornano a mezzogiorno con le reti piene.",
        "traghetto",
    ),
    (
        "nl",
        "De veerboten naar het eiland vertrekken om zeven uur 's ochtends, en de vissers komen rond het middaguur terug met hun netten.",
        "veerboot",
    ),
    (
        "pt",
        "Os pescadores partiram do cais velho às sete horas da manhã e não voltaram antes do meio-dia, com as redes cheias de peixe.",
        "partir",
    ),
    (
        "sv",
        "Färjorna till öarna lämnar de gamla hamnarna klockan sju på morgonen, och fiskarna kommer tillbaka mitt på dagen med sina nät.",
        "hamnen",
    ),
    (
        "ru",
        "Паромы на остров отправляются из старой гавани в семь часов утра, а рыбаки возвращаются в полдень с полными сетями рыбы.",
        "гаванью",
    ),
    (
        "fi",
        "Lautta saarelle lähtee vanhasta satamasta kello seitsemän aamulla, ja kalastajat palaavat keskipäivällä verkot täynnä kalaa.",
        "satamassa",
    ),
];

fn by_words(world: &World) -> Search<Embedder> {
    Search::new(world.store.clone(), embedder(), Settings::default())
}

fn embedder() -> Embedder {
    let settings = EmbeddingSettings { provider: EmbeddingProvider::None, ..EmbeddingSettings::default() };
    Embedder::new(&settings, &Rng::seeded(1)).unwrap()
}

on_each_vector_index! {
    async fn a_memory_is_found_by_other_forms_of_its_words_in_its_language(world: &World) {
        let ada = world.account("ada@example.com").await;
        for (code, text, _) in TEXTS {
            world.add(&ada, code, text, &[]).await;
        }
        let (search, scope) = (by_words(world), MemoryScope::Account(ada));
        for (code, text, other) in TEXTS {
            let answer = search.search(&query(other, &scope)).await.unwrap();
            assert_eq!(titles(&answer), [code], "{other}");
            let in_english = counted("", text, Language::English);
            let is_english = asked(other, 9).stems(Language::English).iter().any(|stem| in_english.stems.contains_key(stem));
            assert_eq!(is_english, code == "en", "{other} shows nothing about {code}");
        }
    }

    async fn a_space_is_searched_in_the_languages_of_all_its_accounts(world: &World) {
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let shared = world.space(&ada).await;
        for (account, nth) in [(&ada, 0), (&bob, 1), (&bob, 2)] {
            world.add(account, TEXTS[nth].0, TEXTS[nth].1, &[shared]).await;
        }
        let (search, scope) = (by_words(world), MemoryScope::Spaces(vec![shared]));
        for (code, _, other) in &TEXTS[..3] {
            assert_eq!(titles(&search.search(&query(other, &scope)).await.unwrap()), [*code], "{other}");
        }
    }
}
