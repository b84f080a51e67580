package kazahana.spring;

import kazahana.Tsid;
import tools.jackson.core.JsonGenerator;
import tools.jackson.core.JsonParser;
import tools.jackson.databind.DeserializationContext;
import tools.jackson.databind.SerializationContext;
import tools.jackson.databind.deser.std.StdDeserializer;
import tools.jackson.databind.module.SimpleModule;
import tools.jackson.databind.ser.std.StdSerializer;

/** The same as {@link TsidJackson2Module} for Jackson 3, which Boot 4 has. */
final class TsidJackson3Module extends SimpleModule {
    private static final long serialVersionUID = 1;

    TsidJackson3Module() {
        super("kazahana");
        addSerializer(new Writer());
        addDeserializer(Tsid.class, new Reader());
    }

    private static final class Writer extends StdSerializer<Tsid> {
        Writer() {
            super(Tsid.class);
        }

        @Override
        public void serialize(Tsid tsid, JsonGenerator out, SerializationContext context) {
            out.writeString(tsid.toString());
        }
    }

    private static final class Reader extends StdDeserializer<Tsid> {
        Reader() {
            super(Tsid.class);
        }

        @Override
        public Tsid deserialize(JsonParser in, DeserializationContext context) {
            String text = in.getValueAsString();
            if (text == null || !Tsid.isValid(text)) {
                return (Tsid) context.handleWeirdStringValue(Tsid.class, text, "13 characters of base 32 are wanted");
            }
            return Tsid.from(text);
        }
    }
}
