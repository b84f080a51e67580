package kazahana.spring;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.deser.std.StdDeserializer;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.ser.std.StdSerializer;
import java.io.IOException;
import kazahana.Tsid;

/** {@link Tsid} as a text in JSON, with Jackson 2: JavaScript loses digits of numbers past 2^53. */
final class TsidJackson2Module extends SimpleModule {
    private static final long serialVersionUID = 1;

    TsidJackson2Module() {
        super("kazahana");
        addSerializer(new Writer());
        addDeserializer(Tsid.class, new Reader());
    }

    private static final class Writer extends StdSerializer<Tsid> {
        private static final long serialVersionUID = 1;

        Writer() {
            super(Tsid.class);
        }

        @Override
        public void serialize(Tsid tsid, JsonGenerator out, SerializerProvider provider) throws IOException {
            out.writeString(tsid.toString());
        }
    }

    private static final class Reader extends StdDeserializer<Tsid> {
        private static final long serialVersionUID = 1;

        Reader() {
            super(Tsid.class);
        }

        @Override
        public Tsid deserialize(JsonParser in, DeserializationContext context) throws IOException {
            String text = in.getValueAsString();
            if (text == null || !Tsid.isValid(text)) {
                return (Tsid) context.handleWeirdStringValue(Tsid.class, text, "13 characters of base 32 are wanted");
            }
            return Tsid.from(text);
        }
    }
}
