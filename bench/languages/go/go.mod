module harness

go 1.19

require (
	github.com/bwmarrin/snowflake v0.3.0
	github.com/google/uuid v1.6.0
	kazahana v0.0.0
)

replace kazahana => ../../../bindings/go
