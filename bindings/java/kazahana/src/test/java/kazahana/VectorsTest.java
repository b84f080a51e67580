package kazahana;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.util.Locale;
import org.junit.jupiter.api.Test;

/** The one file of vectors that every binding reads. */
class VectorsTest {
    private final JsonNode vectors = read();

    private static JsonNode read() {
        try {
            return new ObjectMapper().readTree(Path.of("../../../tests/vectors/ids.json").toFile());
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private Iterable<JsonNode> list(String name) {
        assertTrue(vectors.path(name).size() > 0, "the file of vectors has no " + name);
        return vectors.path(name);
    }

    private static long id(JsonNode v) {
        return Long.parseUnsignedLong(v.path("id").asText());
    }

    @Test
    void everyIdIsTakenApart() {
        for (JsonNode v : list("ids")) {
            Layout.Parts parts = Layout.parse(v.path("layout").asText()).decode(id(v));
            assertEquals(v.path("unix_ms").asLong(), parts.time().toEpochMilli(), v.toString());
            assertEquals(v.path("node").asLong(), parts.node(), v.toString());
            assertEquals(v.path("seq").asLong(), parts.sequence(), v.toString());
        }
    }

    @Test
    void everyTextIsWrittenAndRead() {
        for (JsonNode v : list("text")) {
            for (Ids.Form form : Ids.Form.values()) {
                String text = form == Ids.Form.DECIMAL ? v.path("id").asText()
                        : v.path(form.name().toLowerCase(Locale.ROOT)).asText();
                assertEquals(text, Ids.format(id(v), form));
                assertEquals(id(v), Ids.parse(text, form));
            }
        }
        vectors.path("text_bad").properties().forEach(bad -> bad.getValue().forEach(text -> assertThrows(
                KazahanaException.class,
                () -> Ids.parse(text.asText(), Ids.Form.valueOf(bad.getKey().toUpperCase(Locale.ROOT))), text.toString())));
    }

    private static ExternalIds keys(JsonNode v) {
        return v.has("algorithm") ? ExternalIds.withKeys(v.path("key_number").asText() + " "
                + v.path("algorithm").asText() + " " + v.path("secret_hex").asText() + "\n") : ExternalIds.withoutKeys();
    }

    @Test
    void everyExternalIdGoesBothWays() {
        for (String name : new String[] {"external_no_secret", "external_keyed"}) {
            for (JsonNode v : list(name)) {
                assertEquals(v.path("external").asText(), keys(v).toExternalId(id(v)));
                assertEquals(id(v), keys(v).toInternalId(v.path("external").asText()));
            }
        }
        for (JsonNode v : list("external_typed")) {
            String type = v.path("type").asText();
            assertEquals(v.path("external").asText(), keys(v).toExternalId(type, id(v)));
            assertEquals(id(v), keys(v).toInternalId(type, v.path("external").asText()));
            assertThrows(KazahanaException.class, () -> keys(v).toInternalId("other", v.path("external").asText()));
        }
        for (JsonNode type : list("external_types_bad")) {
            assertThrows(KazahanaException.class, () -> ExternalIds.withoutKeys().toExternalId(type.asText(), 1));
        }
    }
}
