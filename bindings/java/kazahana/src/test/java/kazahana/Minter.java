package kazahana;

/** A program that prints IDs, for tests that want processes: Minter URL COUNT */
public final class Minter {
    private Minter() {}

    public static void main(String[] args) {
        StringBuilder out = new StringBuilder();
        try (Generator ids = Generator.open(args[0])) {
            for (int i = 0; i < Integer.parseInt(args[1]); i++) {
                out.append(Long.toUnsignedString(ids.next())).append('\n');
            }
        }
        System.out.print(out);
    }
}
