module lwio/integration

go 1.26

require lwio v0.0.0

replace lwio => ../
