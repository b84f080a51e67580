module monotimepeer

go 1.24

require peers v0.0.0

replace peers => ../go
