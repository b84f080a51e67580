module kazahana

go 1.19
