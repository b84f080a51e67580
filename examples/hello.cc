// Introduces nothing new: the same calls from C++, where the header is extern "C" and a generator fits a unique_ptr.
#include <cstdio>
#include <iostream>
#include <kazahana.h>
#include <memory>

struct Close {
    void operator()(kz_generator *gen) const
    {
        kz_close(gen);
    }
};

int main()
{
    kz_generator *raw = nullptr;
    kz_error err;
    if (kz_open(&raw, "static:8", nullptr, &err) != KZ_OK) {
        std::cerr << "hello: " << err.message << '\n';
        return 1;
    }
    std::unique_ptr<kz_generator, Close> gen(raw);

    kz_id last = 0;
    for (int i = 0; i < 5; i++) {
        kz_id id;
        if (kz_next(gen.get(), &id) != KZ_OK || id <= last) {
            std::cerr << "hello: no larger ID\n";
            return 1;
        }
        std::cout << id << '\n';
        last = id;
    }
    return 0;
}
